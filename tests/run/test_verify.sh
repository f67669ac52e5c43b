# Bits that flip, and which of them a cross-check finds: see verify.py.
exec python3 -B "$SW_SOURCE/tests/run/verify.py"
