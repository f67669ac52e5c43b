/* clip.h: clipping by the global norm (Pascanu et al. 2013). */
#ifndef SW_OPTIM_CLIP_H
#define SW_OPTIM_CLIP_H

/* What gradients of norm `norm` are multiplied with, so that their norm is at most clip_norm:
 * min(1, clip_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ has it. clip_norm 0: no
 * clipping. A norm that is not a number gives 1: such a step is not taken. */
static inline double sw_clip_factor(double norm, double clip_norm) {
    double factor = clip_norm > 0 ? clip_norm / (norm + 1e-6) : 1;
    return factor < 1 ? factor : 1;
}

#endif
