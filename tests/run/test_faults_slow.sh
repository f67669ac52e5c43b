# Lost ranks, signals and full disks at more instants: see faults.py.
exec python3 -B "$SW_SOURCE/tests/run/faults.py" 20
