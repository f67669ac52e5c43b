# What fits into memory runs, what does not is refused with what would: see fits.py.
exec python3 -B "$SW_SOURCE/tests/run/fits.py"
