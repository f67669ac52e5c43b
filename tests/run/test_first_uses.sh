# Short runs, in which all is done for the first time: see first_uses.py.
exec python3 -B "$SW_SOURCE/tests/run/first_uses.py" "${SW_FIRST_USES:-12}"
