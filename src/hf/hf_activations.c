/* hf_activations.c: what `transformers` calls activations. Several names stand for one function,
 * apart from its rounding. */
#include <string.h>

#include "hf/hf_reader.h"

const char *const sw_hf_activations[SW_N_ACTIVATIONS] = {
    [SW_GELU_TANH] = "gelu_new",
    [SW_GELU] = "gelu",
    [SW_GELU_10] = "gelu_10",
    [SW_QUICK_GELU] = "quick_gelu",
    [SW_SILU] = "silu",
    [SW_RELU] = "relu",
    [SW_RELU_SQUARED] = "relu2",
    [SW_RELU_6] = "relu6",
    [SW_LEAKY_RELU] = "leaky_relu",
    [SW_TANH] = "tanh",
    [SW_SIGMOID] = "sigmoid",
    [SW_HARDSWISH] = "hardswish",
    [SW_MISH] = "mish",
    [SW_LAPLACE] = "laplace",
    [SW_IDENTITY] = "linear",
};

static const struct {
    const char *name;
    sw_activation activation;
} others[] = {
    {"gelu_fast", SW_GELU_TANH},        {"gelu_pytorch_tanh", SW_GELU_TANH},
    {"gelu_python_tanh", SW_GELU_TANH}, {"gelu_accurate", SW_GELU_TANH},
    {"gelu_python", SW_GELU},           {"swish", SW_SILU},
};

bool sw_hf_find_activation(const char *name, sw_activation *activation) {
    for (int i = 0; i < SW_N_ACTIVATIONS; i++)
        if (strcmp(name, sw_hf_activations[i]) == 0) {
            *activation = (sw_activation)i;
            return true;
        }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i].name) == 0) {
            *activation = others[i].activation;
            return true;
        }
    return false;
}
