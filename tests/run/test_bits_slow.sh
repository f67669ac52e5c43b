# Bits, memory and bytes moved over the settings of sharding: see bits.py.
exec python3 -B "$SW_SOURCE/tests/run/bits.py" slow
