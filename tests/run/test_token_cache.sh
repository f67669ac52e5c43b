# The cache of tokenized text, damaged, shared and without a place: see token_cache.py.
exec python3 -B "$SW_SOURCE/tests/run/token_cache.py"
