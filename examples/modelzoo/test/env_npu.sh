# What a job of the NPU sets, for `source`. A CANN installed on the machine is used if its set_env.sh is where it says.
toolkit=${CANN_INSTALL_PATH:-/usr/local/Ascend}/ascend-toolkit/set_env.sh
if [ -f "$toolkit" ]; then source "$toolkit"; fi
export ASCEND_SLOG_PRINT_TO_STDOUT=0 # logs go to files
export ASCEND_GLOBAL_LOG_LEVEL=3     # errors alone
export TASK_QUEUE_ENABLE=1           # calls are queued: the host runs ahead
export HCCL_WHITELIST_DISABLE=1
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
