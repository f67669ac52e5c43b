# Conversations that lie whole in rows: see talks.py.
exec python3 -B "$SW_SOURCE/tests/run/talks.py"
