# What a run still writes, on small disks: see room.py.
exec python3 -B "$SW_SOURCE/tests/run/room.py"
