# SPDX-License-Identifier: Apache-2.0
# `helm test` with metrics.enabled: asks each keeper for its metrics, and says how many are ready. For busybox.
#     sh ready.sh SERVICE PORT
domain=$(sed -n 's/^search \([^ ]*\).*/\1/p' /etc/resolv.conf)
all=0
ready=0
for address in $(nslookup "$1.$domain" | sed -n '/^Name:/,$s/^Address[^:]*: *//p' | sort -u); do
  case $address in *:*) address="[$address]" ;; esac
  metrics=$(wget -q -T 10 -O - "http://$address:$2/metrics") || metrics=
  verdict=$(echo "$metrics" | sed -n 's/^peermem_gate_verdict{verdict="\([A-Za-z]*\)"} 1$/\1/p')
  state=$(echo "$metrics" | sed -n 's/^peermem_gate_keep_state{state="\([A-Za-z]*\)"} 1$/\1/p')
  echo "$address ${state:-no answer} ${verdict}"
  all=$((all + 1))
  case $verdict$state in ReadyLoaded | NotApplicable*) ready=$((ready + 1)) ;; esac
done
echo "$ready of $all keepers are ready"
[ "$all" -gt 0 ] && [ "$ready" -eq "$all" ]
