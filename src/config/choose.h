/* choose.h: what `auto` comes to in the optimizer's options, and in model.dropout of a new
 * model. */
#ifndef SW_CONFIG_CHOOSE_H
#define SW_CONFIG_CHOOSE_H

#include "config/settings.h"

/* Choose the learning rate, the weight decay and, where train.steps is given, the warm-up;
 * settings->chosen says why. A new model's dropout is 0; that of a model that exists stays auto:
 * its own. */
void sw_settings_choose(sw_settings *settings);

#endif
