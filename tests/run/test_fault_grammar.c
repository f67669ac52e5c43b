/* The grammar of faults: every key arrives where it belongs, and what is no fault is refused with a
 * message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "faults/faults.h"

static sw_fault parsed(const char *text) {
    sw_fault fault;
    sw_error err = {0};
    if (sw_fault_parse(text, &fault, &err) != SW_OK)
        fail_msg("%s: %s", text, err.message);
    return fault;
}

static void values_arrive_where_they_belong(void **state) {
    (void)state;
    sw_fault kill = parsed("kill:rank=1,step=3");
    assert_true(kill.kind == SW_FAULT_KILL && kill.rank == 1 && kill.step == 3 && kill.at < 0);
    assert_string_equal(kill.text, "kill:rank=1,step=3");
    sw_fault stop = parsed("stop:rank=supervisor,at=1.5s");
    assert_true(stop.kind == SW_FAULT_STOP && stop.rank == SW_FAULT_SUPERVISOR && stop.at == 1.5 &&
                stop.step == 0);
    assert_true(parsed("stop:at=0.25,rank=0").at == 0.25);
    sw_fault slow = parsed("slow:rank=255,factor=4");
    assert_true(slow.kind == SW_FAULT_SLOW && slow.rank == 255 && slow.factor == 4);
    sw_fault delay = parsed("delay:rank=1,instruction=gather layers.*,seconds=0.2");
    assert_true(delay.kind == SW_FAULT_DELAY && delay.seconds == 0.2);
    assert_string_equal(delay.instruction, "gather layers.*");
    sw_fault flip = parsed("flip:rank=1,step=5,buffer=moments,unit=root,bit=17");
    assert_true(flip.kind == SW_FAULT_FLIP && flip.buffer == SW_FAULT_MOMENTS && flip.bit == 17);
    assert_string_equal(flip.unit, "root");
    assert_string_equal(parsed("flip:rank=0,bit=0,file=steps/latest").file, "steps/latest");
    sw_fault allocation = parsed("allocation:k=100");
    assert_true(allocation.kind == SW_FAULT_ALLOCATION && allocation.k == 100 && allocation.n == 1);
    assert_int_equal(allocation.rank, SW_FAULT_EVERY_RANK);
    sw_fault write = parsed("write:error=ENOSPC,k=3,n=2,rank=0");
    assert_true(write.kind == SW_FAULT_WRITE && write.error == ENOSPC && write.k == 3 &&
                write.n == 2);
    assert_int_equal(parsed("write:error=short,k=1").error, SW_FAULT_CUT_SHORT);
}

/* One byte of a fault changed, left out or doubled: a fault or it is refused in one line that
 * quotes it; nothing else happens. */
static void any_text_is_a_fault_or_refused(void **state) {
    static const char *const good[] = {
        "kill:rank=1,step=3", "slow:rank=0,factor=4", "flip:rank=1,step=5,buffer=parameters,bit=17",
        "write:error=ENOSPC,k=3,file=*/steps/*", "delay:rank=1,instruction=gather*,seconds=0.2"};
    (void)state;
    int n_refused = 0;
    for (size_t g = 0; g < sizeof good / sizeof *good; g++)
        for (size_t i = 0; i < strlen(good[g]); i++)
            for (int byte = 0; byte < 256; byte++) {
                char text[128];
                sw_fault fault;
                sw_error err = {0};
                snprintf(text, sizeof text, "%s", good[g]);
                text[i] = (char)byte;
                sw_status status = sw_fault_parse(text, &fault, &err);
                assert_true(status == SW_OK ||
                            (status == SW_BAD_CONFIG && strstr(err.message, text)));
                n_refused += status != SW_OK;
            }
    assert_true(n_refused > 10000);
}

static void numbers_that_mean_two_things_are_refused(void **state) {
    static const struct {
        const char *text, *remedy;
    } cases[] = {
        {"kill:rank=01,step=3", "write 1"},
        {"kill:rank=1,step=010", "write 10, or 8"},
        {"stop:rank=0,at=0x1", "write 1"},
        {"stop:rank=0,at=1:30", "write 90"},
        {"flip:rank=1,step=5,buffer=parameters,bit=1_000", "write 1000"},
        {"allocation:k=-1", "K-th call"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_fault fault;
        sw_error err = {0};
        assert_int_equal(sw_fault_parse(cases[i].text, &fault, &err), SW_BAD_CONFIG);
        if (!strstr(err.message, cases[i].remedy))
            fail_msg("%s", err.message);
    }
}

static void long_texts_are_refused(void **state) {
    char text[4096];
    sw_fault fault;
    sw_error err = {0};
    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    memcpy(text, "kill:rank=1,", 12);
    assert_int_equal(sw_fault_parse(text, &fault, &err), SW_BAD_CONFIG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_arrive_where_they_belong),
        cmocka_unit_test(any_text_is_a_fault_or_refused),
        cmocka_unit_test(numbers_that_mean_two_things_are_refused),
        cmocka_unit_test(long_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
