#!/bin/sh
exec python3 /app/backend/imitation.py hermes "$@"
