# What went wrong is told whatever else is not: see quiet.py.
exec python3 -B "$SW_SOURCE/tests/run/quiet.py"
