# Plans of extreme dimensions: see extremes.py.
exec python3 -B "$SW_SOURCE/tests/cli/extremes.py"
