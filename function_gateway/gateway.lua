-- What HAProxy itself cannot do for a request that no pod has a free slot for. Requests that find a free slot
-- do not come here.
local functions = Map.new(os.getenv("SURGEKIT_FUNCTIONS_MAP"), Map._str)

-- The placement answers in its budget. If it does not, it hangs, and for a while nobody asks.
local quiet_until_s, quiet_s, margin_s = 0, 1, 0.1

local function now_s()
    local now = core.now()
    return now.sec + now.usec / 1e6
end

-- The body of the placement's answer, or nil. Each question has a connection of its own: of connections that
-- were kept, HAProxy 2.6 and 3.0 lost some answers.
local function ask(path, question, timeout_s)
    local began_s = now_s()
    if began_s < quiet_until_s then
        return nil
    end
    local answer
    local socket = core.tcp()
    socket:settimeout(timeout_s)
    if socket:connect(path) then
        socket:send("POST /place HTTP/1.1\r\nHost: placement\r\nConnection: close\r\nContent-Length: "
            .. #question .. "\r\n\r\n" .. question)
        answer = socket:receive("*a")
    end
    socket:close()
    if not answer and now_s() - began_s >= timeout_s then
        quiet_until_s = now_s() + quiet_s
    end
    return answer
end

-- Asks the placement for an emergency instance. Without one, the request waits for a pod as all others do.
core.register_action("place", { "http-req" }, function(txn, path, budget_ms)
    local question = string.format('{"function":"%s","request":"%s","budget_ms":%s}',
        txn:get_var("txn.function"), txn:get_var("txn.request"), budget_ms)
    local answer = ask(path, question, tonumber(budget_ms) / 1000 + margin_s)
    local address = answer and answer:match('"address": *"([%x.:]+)"')
    local port = answer and answer:match('"port": *(%d+)')
    if address and port then
        txn:set_var("txn.address", address)
        txn:set_var("txn.port", tonumber(port))
    end
end, 2)

-- Holds a request that was passed on several times: 10 ms, 20 ms, ..., 5 s in all.
core.register_action("pause", { "http-req" }, function(txn)
    core.msleep(math.floor(10 * 2 ^ (txn:get_var("txn.passes") - 3)))
end)

-- Without any pod, HAProxy would send the request to the backend's backup server at once. Here it waits for a
-- pod, for the function's move to another backend, or until it is late.
core.register_action("wait_for_pod", { "http-req" }, function(txn, backend, without_pod, limit_ms)
    local waited_ms = 0
    while txn.f:be_conn_free(backend) >= tonumber(without_pod) and waited_ms < tonumber(limit_ms) do
        if functions:lookup(txn:get_var("txn.function")) ~= backend then
            txn:set_var("txn.moved", true)
            return
        end
        core.msleep(20)
        waited_ms = waited_ms + 20
    end
end, 3)
