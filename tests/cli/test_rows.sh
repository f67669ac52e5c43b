# Rows of .jsonl files through the command: templates that are run, keys that are honoured or refused, forms, names of columns.
exec python3 "$SW_SOURCE/tests/cli/rows.py" "$SW_BUILD/shardwise" "$SW_SOURCE/tests/data"
