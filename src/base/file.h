/* file.h: whole reads, whole writes and the words for what went wrong with a file.
 *
 * Reading fails with SW_BAD_FILE, writing with SW_NO_SPACE (the disk is full or cannot be written);
 * every message begins with the path. Short reads and writes and interrupted calls are dealt with
 * here and nowhere else.
 */
#ifndef SW_BASE_FILE_H
#define SW_BASE_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shardwise/status.h>

#define SW_PATH_BYTES 4096
#define SW_USER_BYTES 64

/* "folder/name" into path. Errors: SW_BAD_CONFIG when it is too long. */
sw_status sw_path_join(char path[SW_PATH_BYTES], const char *folder, const char *name,
                       sw_error *err);

/* Is something of any kind there? Where nobody can tell, for want of a right, say, it counts as
 * there: whoever opens it hears the reason. */
bool sw_file_exists(const char *path);

/* Shall be made, and nothing is overwritten. Errors: SW_BAD_CONFIG: something is there; SW_NO_SPACE
 * where nobody can tell. */
sw_status sw_file_must_be_new(const char *path, sw_error *err);

/* Does it belong to another user whose name is known? out: the name, then. A link is followed. */
bool sw_file_is_foreign(const char *path, char owner[SW_USER_BYTES]);

/* "file", "folder", "link", "pipe", "socket" or "device": what st_mode stands for. */
const char *sw_file_kind(unsigned mode);

/* Open a regular file for reading; whatever else has the name, or the link to it, is refused by its
 * kind, and never waited for as open() waits for the writer of a pipe. out: *descriptor (the caller
 * closes it), *bytes its size. */
sw_status sw_file_open(const char *path, int *descriptor, int64_t *bytes, sw_error *err);

/* Exactly `bytes` bytes from `offset`; a file that ends before is SW_BAD_FILE. `path` is for
 * messages. */
sw_status sw_file_read_at(int descriptor, const char *path, void *out, int64_t bytes,
                          int64_t offset, sw_error *err);

/* A whole file, with a NUL after it that *bytes (may be NULL) does not count; longer than max_bytes
 * is refused before anything is allocated. Ownership: free(*text). */
sw_status sw_file_read(const char *path, int64_t max_bytes, char **text, int64_t *bytes,
                       sw_error *err);

/* All of `bytes` at `offset`. */
sw_status sw_file_write_at(int descriptor, const char *path, const void *data, int64_t bytes,
                           int64_t offset, sw_error *err);

/* Open a regular file for writing, made new or emptied. What else has the name, a link included, is
 * refused as sw_file_check_name does, and never waited for. `shown` stands for it in messages on
 * the disk: the name that it gets in the end. out: *descriptor, which the caller closes. */
sw_status sw_file_create(const char *path, const char *shown, int *descriptor, sw_error *err);

/* May a file be written under the name `path`? Nothing has it, or a file. A rename would put a file
 * in the place of a device, a pipe or a link (/dev/null and /dev/stdout among them), and root is
 * not kept from that; appending would follow a link out of its folder. Errors: SW_BAD_CONFIG. */
sw_status sw_file_check_name(const char *path, sw_error *err);

/* Make or replace a file: under its name there is the old content or the new, whole and on disk,
 * never something between. Names that sw_file_check_name refuses are refused. */
sw_status sw_file_write(const char *path, const void *data, int64_t bytes, sw_error *err);

/* Give an open file its size, and blocks for all of it where the file system can say so, so that
 * later writes do not find the disk full. Where it cannot reserve, a full disk shows while writing;
 * never by writing zeros, as others may write already. sw_reserve returns 0 or an errno. */
int sw_reserve(int descriptor, int64_t bytes);
sw_status sw_file_reserve(int descriptor, const char *path, int64_t bytes, sw_error *err);

/* Do both paths lead to one file, or would they, once it is written? */
bool sw_file_is_same(const char *a, const char *b);

/* Bytes that an unprivileged writer can still put on the disk of `path` or of its nearest folder
 * that exists; INT64_MAX if unknown. */
int64_t sw_file_space(const char *path);

/* The next entry of an open folder, NULL after the last. *error: 0, or the errno with which the
 * folder could not be read on: it must never be taken for one with fewer entries. */
struct dirent *sw_folder_next(DIR *folder, int *error);

/* Bytes on the disk of the files that lie in a folder; 0 if it cannot be read. */
int64_t sw_folder_blocks(const char *path);

/* Does what is written to `path`, or to its nearest folder that exists, lie in memory (tmpfs)? */
bool sw_file_is_in_memory(const char *path);

/* Let what was written last, where that can be; 0 or an errno. */
int sw_sync(int descriptor);
sw_status sw_file_sync(int descriptor, const char *path, sw_error *err);

/* Close a file that was written to: 0 or an errno. sw_file_close passes `status` on, of what was
 * done before, unless that was well and closing fails. */
int sw_close(int descriptor);
sw_status sw_file_close(int descriptor, const char *path, sw_status status, sw_error *err);

/* Write a folder's entries to disk, so that a rename in it survives a power cut. */
sw_status sw_folder_sync(const char *path, sw_error *err);

/* Give `from` the name `to`, which nothing may have yet, and write that to disk. */
sw_status sw_file_publish(const char *from, const char *to, sw_error *err);

#endif
