-- leave: a worker gives its lease back; what it still holds is lent again. []

pending.is_urgent = true
workers.be_absent(given.worker)
flush()
return "[]"
