/* activation.h: functions of one number, between two linear layers.
 *
 * Phi is the distribution function of the standard normal distribution, sigmoid(x) = 1 / (1 +
 * e^-x).
 */
#ifndef SHARDWISE_ACTIVATION_H
#define SHARDWISE_ACTIVATION_H

typedef enum sw_activation {
    SW_GELU_TANH,  /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel 2016) */
    SW_GELU,       /* x Phi(x) */
    SW_GELU_10,    /* the same, held within -10 .. 10 */
    SW_QUICK_GELU, /* x sigmoid(1.702 x) */
    SW_SILU,       /* x sigmoid(x) */
    SW_RELU,       /* max(x, 0); its slope at 0 is 0 */
    SW_RELU_SQUARED,
    SW_RELU_6,     /* min(max(x, 0), 6) */
    SW_LEAKY_RELU, /* x, or 0.01 x where x < 0 */
    SW_TANH,
    SW_SIGMOID,
    SW_HARDSWISH, /* x min(max(x + 3, 0), 6) / 6 */
    SW_MISH,      /* x tanh(log(1 + e^x)) */
    SW_LAPLACE,   /* Phi((x - 0.707107) / 0.282095) */
    SW_IDENTITY,
    SW_N_ACTIVATIONS
} sw_activation;

#endif
