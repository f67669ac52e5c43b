# Conversations in a run: the template that is run, and the time that it tells: see templates.py.
exec python3 "$SW_SOURCE/tests/run/templates.py"
