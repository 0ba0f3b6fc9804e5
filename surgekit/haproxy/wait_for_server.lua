-- HAProxy answers 503 at once when a backend has no server. A function may still be starting, so the request
-- waits for a server, up to the timeout. The answer then gets the rest of the timeout.
core.register_action("wait_for_server", { "http-req" }, function(txn, backend, limit_ms)
    local waited_ms = 0
    while txn.f:nbsrv(backend) < 1 and waited_ms < tonumber(limit_ms) do
        core.msleep(20)
        waited_ms = waited_ms + 20
    end
    txn:set_var("txn.left_ms", math.max(1, tonumber(limit_ms) - waited_ms))
end, 2)
