# No message advises to destroy what Shardwise has not written: see advice.py.
exec python3 -B "$SW_SOURCE/tests/house/advice.py" "$SW_SOURCE"
