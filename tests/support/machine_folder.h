/* machine_folder.h: a folder with files of /proc and /sys as another machine would show them. */
#ifndef SW_TESTS_SUPPORT_MACHINE_FOLDER_H
#define SW_TESTS_SUPPORT_MACHINE_FOLDER_H

/* A cmocka test whose *state is the path of such a folder, empty at first. */
#define MACHINE_TEST(test) cmocka_unit_test_setup_teardown(test, make_machine, remove_machine)
int make_machine(void **state);
int remove_machine(void **state);

/* name: "/proc/meminfo". */
void put_file(void **state, const char *name, const char *text);

#endif
