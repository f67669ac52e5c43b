/* shardwise.h: the library's face. See the small headers for each part, and docs/embedding.md for
 * where to begin. */
#ifndef SHARDWISE_H
#define SHARDWISE_H

#include <shardwise/activation.h>
#include <shardwise/attention.h>
#include <shardwise/graph.h>
#include <shardwise/launch.h>
#include <shardwise/sharded.h>
#include <shardwise/status.h>
#include <shardwise/train.h>

#endif
