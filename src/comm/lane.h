/* lane.h: what a rank does side by side. Each lane goes through the program in its order, on a
 * thread of its own. */
#ifndef SW_COMM_LANE_H
#define SW_COMM_LANE_H

typedef enum sw_lane {
    SW_LANE_COMPUTE,
    SW_LANE_COMMUNICATION, /* where collectives copy */
    SW_LANES
} sw_lane;

#endif
