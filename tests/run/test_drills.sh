# SIGKILLs at random instants of random processes, a few of them: see drills.py. All of them: drills.py --count 1000.
exec python3 -B "$SW_SOURCE/tests/run/drills.py" --count 16
