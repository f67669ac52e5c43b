# Runs that stop and go on, over all numbers of ranks: see resume.py.
exec python3 -B "$SW_SOURCE/tests/run/resume.py" slow
