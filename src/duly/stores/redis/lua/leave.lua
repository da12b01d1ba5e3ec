-- leave: a worker gives its lease back; what it still holds is lent again. []

write_though_memory_is_full()
workers.be_absent(given.worker)
flush()
return "[]"
