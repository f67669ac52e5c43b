# Folders with names of every kind: see odd_names.py.
exec python3 -B "$SW_SOURCE/tests/run/odd_names.py"
