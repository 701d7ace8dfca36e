exec python3 /app/backend/imitation.py open-webui
