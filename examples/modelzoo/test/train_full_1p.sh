#!/bin/bash
# bash train_full_1p.sh --data_path=FOLDER: training on one NPU.
exec bash "$(dirname "$0")/train_full.sh" 1 "$@"
