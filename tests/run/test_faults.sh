# Lost ranks, signals and full disks: see faults.py.
exec python3 -B "$SW_SOURCE/tests/run/faults.py" 4
