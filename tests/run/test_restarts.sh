# Ranks and supervisors that are lost, and the run goes on: see restarts.py.
exec python3 -B "$SW_SOURCE/tests/run/restarts.py" 1
