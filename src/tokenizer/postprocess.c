/* postprocess.c: templates and their older relatives. Only the template for a single text matters
 * here. */
#include "tokenizer/postprocess.h"

#include <stdlib.h>
#include <string.h>

static sw_status no_memory(const sw_part *part, sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
}

/* Put ids in front of those that are there: processors run one after the other, each around the
 * text of the one before. */
static bool put_before(sw_postprocessor *p, const sw_token_list *ids) {
    sw_token_list all = {0};
    bool is_put = true;
    for (int64_t i = 0; i < ids->n; i++)
        is_put = sw_token_list_put(&all, ids->ids[i]) && is_put;
    for (int64_t i = 0; i < p->before.n; i++)
        is_put = sw_token_list_put(&all, p->before.ids[i]) && is_put;
    sw_token_list_free(&p->before);
    p->before = all;
    return is_put;
}

/* The ids of a special token of a template, as "special_tokens" spells them. */
static sw_status put_special(const sw_part *part, const sw_part *specials, const char *name,
                             sw_token_list *ids, sw_error *err) {
    sw_part special;
    json_t *list = NULL, *value;
    size_t i;
    if (!specials->object || !json_object_get(specials->object, name))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: %s.single names \"%.64s\", which its special_tokens lack", part->file,
                       part->where, name);
    sw_status status = sw_part_child(specials, name, SW_NEEDED, &special, err);
    if (!status)
        status = sw_part_list(&special, "ids", SW_NEEDED, &list, err);
    if (status)
        return status;
    json_array_foreach(list, i, value) {
        int64_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id >= INT32_MAX)
            return sw_fail(err, SW_BAD_FILE, "%s: %s.ids[%zu] is no id of a token", part->file,
                           special.where, i);
        if (!sw_token_list_put(ids, (int32_t)id))
            return no_memory(part, err);
    }
    return SW_OK;
}

static sw_status read_template(const sw_part *part, sw_postprocessor *p, sw_error *err) {
    json_t *list = NULL;
    sw_part specials;
    sw_token_list before = {0};
    int n_texts = 0;
    sw_status status = sw_part_list(part, "single", SW_NEEDED, &list, err);
    if (!status)
        status = sw_part_child(part, "special_tokens", SW_ABSENT_IS_FINE, &specials, err);
    for (size_t i = 0; !status && i < json_array_size(list); i++) {
        sw_part item, piece;
        sw_text_span name = {0};
        status = sw_part_element(part, "single", list, i, &item, err);
        if (status)
            break;
        bool is_text = json_object_get(item.object, "Sequence") != NULL;
        status =
            sw_part_child(&item, is_text ? "Sequence" : "SpecialToken", SW_NEEDED, &piece, err);
        if (!status)
            status = sw_part_text(&piece, "id", SW_NEEDED, &name, err);
        if (status)
            break;
        if (is_text && (strcmp(name.text, "A") || n_texts++))
            status =
                sw_fail(err, SW_BAD_FILE, "%s: %s.single has more than one text, or another than A",
                        part->file, part->where);
        else if (!is_text)
            status = put_special(part, &specials, name.text, n_texts ? &p->after : &before, err);
    }
    if (!status && !n_texts)
        status =
            sw_fail(err, SW_BAD_FILE, "%s: %s.single leaves the text out", part->file, part->where);
    if (!status && !put_before(p, &before))
        status = no_memory(part, err);
    sw_token_list_free(&before);
    return status;
}

/* ["[SEP]", 102] under a key: its id. */
static sw_status read_pair(const sw_part *part, const char *key, int32_t *id, sw_error *err) {
    json_t *pair = NULL;
    sw_status status = sw_part_list(part, key, SW_NEEDED, &pair, err);
    if (status)
        return status;
    const json_t *number = json_array_get(pair, 1);
    int64_t value = json_integer_value(number);
    if (json_array_size(pair) != 2 || !json_is_string(json_array_get(pair, 0)) ||
        !json_is_integer(number) || value < 0 || value >= INT32_MAX)
        return sw_fail(err, SW_BAD_FILE, "%s: %s.%s is no pair of a token and its id", part->file,
                       part->where, key);
    *id = (int32_t)value;
    return SW_OK;
}

/* BertProcessing and RobertaProcessing: cls, text, sep. */
static sw_status read_classic(const sw_part *part, sw_postprocessor *p, sw_error *err) {
    int32_t separator = 0, first = 0;
    sw_status status = read_pair(part, "sep", &separator, err);
    if (!status)
        status = read_pair(part, "cls", &first, err);
    if (status)
        return status;
    const sw_token_list before = {&first, 1, 1};
    return put_before(p, &before) && sw_token_list_put(&p->after, separator) ? SW_OK
                                                                             : no_memory(part, err);
}

static sw_status read_processor(const sw_part *part, const char *type, void *into, sw_error *err) {
    sw_postprocessor *p = into;
    if (!strcmp(type, "ByteLevel")) /* moves offsets, which ids do not have */
        return SW_OK;
    if (!strcmp(type, "TemplateProcessing"))
        return read_template(part, p, err);
    if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing"))
        return read_classic(part, p, err);
    return sw_part_unknown(part, "post-processor", type, err);
}

sw_status sw_postprocessor_read(const sw_part *root, sw_postprocessor *processor, sw_error *err) {
    sw_part part;
    sw_status status = sw_part_child(root, "post_processor", SW_ABSENT_IS_FINE, &part, err);
    return status || !part.object
               ? status
               : sw_part_steps(&part, "processors", read_processor, processor, err);
}

void sw_postprocessor_free(sw_postprocessor *processor) {
    sw_token_list_free(&processor->before);
    sw_token_list_free(&processor->after);
}
