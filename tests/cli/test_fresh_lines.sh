# Messages begin at the start of a line: see fresh_lines.py.
exec python3 -B "$SW_SOURCE/tests/cli/fresh_lines.py"
