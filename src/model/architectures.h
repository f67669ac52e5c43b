/* architectures.h: what each architecture records. llama.c has Llama and its relatives, gpt2.c
 * GPT-2; model.c has the table. */
#ifndef SW_MODEL_ARCHITECTURES_H
#define SW_MODEL_ARCHITECTURES_H

#include "model/model.h"

/* Record the forward pass into an empty graph; errors are left in the graph (sw_graph_status). */
void sw_llama_record(const sw_model_config *config, sw_model_end end, sw_graph *graph);
void sw_gpt2_record(const sw_model_config *config, sw_model_end end, sw_graph *graph);

/* Declare the parameter of a unit whose name is put together like printf: a block's number stands
 * in the middle of it. */
typedef struct sw_declaration {
    sw_initializer initializer;
    double std;
    int n_dimensions;
    int64_t dimension[2];
} sw_declaration;
sw_parameter *sw_declare(sw_graph *graph, sw_unit *unit, sw_declaration declaration,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The end of every language model: the loss over targets, or the logits for generation. */
void sw_record_end(sw_model_end end, sw_graph *graph, sw_value *x, sw_parameter *head);

#endif
