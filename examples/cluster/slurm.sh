#!/usr/bin/env bash
# A training on all nodes of a Slurm job:  sbatch --nodes 4 --gpus-per-node 8 examples/cluster/slurm.sh RECIPE.toml
#
# The first node has the head of a Ray cluster; every node plays episodes, and trains with its GPUs. Without
# --gpus-per-node one process on the first node trains. RECIPE.toml, runs/ and the virtual environment that is active
# when the job is submitted must be on a file system that all nodes share.
# Submitted again with the same --job-name, it goes on with the run.
#SBATCH --job-name=agentgym
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=24:00:00
set -euo pipefail
recipe=${1:?name a recipe: sbatch slurm.sh RECIPE.toml}
folder=runs/$SLURM_JOB_NAME

export RAY_worker_niceness=0 # at Ray's own priority, sandboxes starve
export RAY_USAGE_STATS_ENABLED=0
port=$((20000 + SLURM_JOB_ID % 20000)) # jobs of other users may share a node's ports

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
address=$(srun --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" hostname --ip-address | awk '{ print $1 }'):$port

# `ray start --block` rather than `agentgym cluster up`: what a step leaves in the background ends with the step.
srun --overlap --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" \
    ray start --head --port="$port" --include-dashboard=false --disable-usage-stats --block &
for node in "${nodes[@]:1}"; do
    srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" \
        bash -c "until ray start --address=$address --disable-usage-stats --block; do sleep 5; done" &
done

alive() { agentgym cluster status --address "$address" 2>/dev/null | grep -c ' yes ' || true; }
for _ in {1..60}; do
    [ "$(alive)" -ge "${#nodes[@]}" ] && break
    sleep 5
done
agentgym cluster probe --address "$address" # says which node cannot make sandboxes, and ends the job

resume=()
[ -e "$folder" ] && resume=(--resume)
launch=(agentgym)
gpus=${SLURM_GPUS_ON_NODE:-0}
if [ $((gpus * ${#nodes[@]})) -gt 1 ]; then # one process for each GPU, of which the first has the episodes played
    launch=(srun --overlap --nodes="${#nodes[@]}" --ntasks-per-node=1 torchrun --nnodes="${#nodes[@]}"
        --nproc-per-node="$gpus" --rdzv-id="$SLURM_JOB_ID" --rdzv-backend=c10d
        --rdzv-endpoint="${address%:*}:$((port + 1))" -m agentgym)
fi
"${launch[@]}" train "$recipe" --out "$folder" "${resume[@]}" --set machine.engine=ray \
    --set machine.address="$address" --set machine.nodes="${#nodes[@]}"
kill $(jobs -p) # ends Ray on all nodes
