#!/bin/sh
# Deploys from CI: only what a person permitted before or approves now, exactly as it stands here, and once.
#
#   $ printf 'tasks:\n  deploy:\n    command: [./deploy.sh]\n' > interlock.yaml
#   $ printf '#!/bin/sh\necho "$1 is deployed" | tee -a deployed.txt\n' > deploy.sh && chmod +x deploy.sh
#   $ interlock init --bare
#   $ CI=$(interlock key create ci --kind service --roles submit)
#   $ ANN=$(interlock key create ann --kind person --roles review)
#   $ interlock serve > serve.log 2>&1 &
#   $ export INTERLOCK_URL=http://127.0.0.1:8700
#   $ INTERLOCK_KEY=$ANN interlock grant deploy --pin 'args.0="staging"' --uses 2 --expires-in 15m
#   $ INTERLOCK_KEY=$CI sh ci_deploy.sh staging                # the grant fits: it runs at once
#   staging is deployed
#   $ INTERLOCK_KEY=$CI sh ci_deploy.sh production &
#   $ INTERLOCK_KEY=$ANN interlock review                      # in another terminal; answer y
#   $ wait %2
#   production is deployed
#   $ INTERLOCK_KEY=$CI WAIT=0s sh ci_deploy.sh production || test $? -eq 4
#   not deployed: nobody has decided yet
#
# In a CI system, INTERLOCK_URL and INTERLOCK_KEY are secrets of the project: see ci_workflow.yaml.

interlock exec --wait "${WAIT:-30m}" deploy "$@"
status=$?
case $status in
0) ;; # it ran, and ended well
3) echo "not deployed: denied or rejected, or what was approved is not what stands here" ;;
4) echo "not deployed: nobody has decided yet; once somebody has, the command above goes on" ;;
5) echo "not deployed: busy, or running elsewhere; run this job again later" ;;
6) echo "out of reach, or nobody knows whether it ran: look before you run this job again" ;;
*) echo "deploy.sh was run, or could not be, and ended with $status" ;; # let it use none of the codes above
esac >&2
exit $status
