#!/bin/sh
# Before a Ray pod ends: have Ray move its replicas elsewhere, and wait until their requests are answered.
# Kubernetes sends SIGTERM only when this has returned; terminationGracePeriodSeconds must be longer.
within_s="${1:-330}"
ray drain-node --address "${RAY_ADDRESS:-auto}" --reason DRAIN_NODE_REASON_PREEMPTION \
  --reason-message "the pod ends" --deadline-remaining-seconds "$within_s" || exit 0
while [ "$within_s" -gt 0 ] && pgrep -f '^ray::ServeReplica' >/dev/null; do
  sleep 1
  within_s=$((within_s - 1))
done
