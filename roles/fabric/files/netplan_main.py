# Managed by gb10.fleet: what the units gb10-netplan-change and gb10-netplan-recover run.
from gb10_netplan.guard import main

main()
