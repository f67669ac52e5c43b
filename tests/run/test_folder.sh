# What a run writes and refuses: see folder.py.
exec python3 -B "$SW_SOURCE/tests/run/folder.py"
