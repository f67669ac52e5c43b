# Whatever a user names is opened by base/file.c, which waits for no pipe and reads no device: see src/base/file.h. Each call elsewhere is listed here,
# with why it may be one.
set -u
cd "$SW_SOURCE/src" || exit 1
list=$(mktemp)
trap 'rm -f "$list"' EXIT
cat >"$list" <<'END'
base/file.c                 the place for it
base/proc_text.c            files of /proc and /sys
config/settings_text.c      RUN.yaml, which may be a pipe of the shell: O_NONBLOCK
cli/main.c                  /dev/null
cli/bench.c                 /proc/cpuinfo
cli/bench_run.c             /proc; the run that it made itself
cli/doctor.c                files of /proc and /sys
observe/json_line.c         checked by name before; O_RDWR waits for no other end
observe/metrics.c           checked by name before; r+ waits for no other end
data/text_cache.c           folders
data/tokenize.c             parts in a folder that it made itself
hf/adapter_merge.c          a file that it made itself
hf/chat_template.c          folders
hf/companions.c             O_EXCL
checkpoint/load.c           O_NONBLOCK, and only regular files
hf/model_save.c             O_EXCL; folders; files that it made itself
hf/model_write.c            a file that it made itself
checkpoint/run_folder.c     folders
checkpoint/run_lock.c       O_NONBLOCK
checkpoint/steps.c          folders
checkpoint/steps_prune.c    O_NONBLOCK
checkpoint/storage.c        folders; files in a folder that it made itself
faults/faults_flip.c        O_RDWR waits for no other end
faults/preload/fault_calls.c open itself
launch/launcher.c           /proc/PID/environ
train/run_folder.c          folders
END
found=$(grep -rlE '(^|[^_a-z>.])(open|openat|fopen|freopen|opendir|json_load_file)\(' --include=*.c . | sed 's,^\./,,' | sort)
listed=$(awk '{print $1}' "$list" | sort)
[ "$found" = "$listed" ] && exit 0
echo 'files that open files, and the list in tests/house/test_opens.sh:' >&2
diff <(echo "$found") <(echo "$listed") >&2
exit 1
