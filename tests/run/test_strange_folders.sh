# Folders of runs that are not as a run leaves them: see strange_folders.py.
exec python3 -B "$SW_SOURCE/tests/run/strange_folders.py"
