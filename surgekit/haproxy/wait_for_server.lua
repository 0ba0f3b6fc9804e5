-- HAProxy answers 503 at once when a backend has no server. A gateway in front of functions that are being
-- started waits for one, up to its timeout; what is left of that is then for the answer.
core.register_action("wait_for_server", { "http-req" }, function(txn, backend, limit_ms)
    local waited_ms = 0
    while txn.f:nbsrv(backend) < 1 and waited_ms < tonumber(limit_ms) do
        core.msleep(20)
        waited_ms = waited_ms + 20
    end
    txn:set_var("txn.left_ms", math.max(1, tonumber(limit_ms) - waited_ms))
end, 2)
