# Runs that stop and go on: see resume.py.
exec python3 -B "$SW_SOURCE/tests/run/resume.py" fast
