# One image for every part; the manifests choose with arguments (serve extender, serve probe,
# certificates secrets). Both stages use the same base, so the environment can be copied as it is.
ARG PYTHON=python:3.13-slim

FROM ${PYTHON} AS build
RUN pip install --no-cache-dir --root-user-action=ignore uv==0.13.7
WORKDIR /src
RUN uv venv /opt/surgekit
# Dependencies first: this layer stays while only our code changes. What to install comes from
# pyproject.toml (the extra `parts`: neither the lab's nor the dev group's), which version and which bytes
# from the one lock that development uses as well: a package that is missing there, or differs from its
# hash, fails the build.
COPY pyproject.toml requirements.lock ./
RUN uv pip install --python /opt/surgekit/bin/python --no-cache --compile-bytecode \
    --requirements pyproject.toml --extra parts --constraints requirements.lock --require-hashes --only-binary :all:
COPY README.md LICENSE ./
COPY surgekit surgekit
COPY cluster_model cluster_model
COPY scheduler_extender scheduler_extender
COPY combofunc combofunc
COPY function_gateway function_gateway
COPY limit_allocator limit_allocator
COPY burst_plane burst_plane
COPY node_speed_probe node_speed_probe
COPY cluster_autoscaler_hook cluster_autoscaler_hook
COPY hpa_replacement hpa_replacement
COPY cluster_view cluster_view
COPY manifests manifests
RUN uv pip install --python /opt/surgekit/bin/python --no-cache --compile-bytecode --no-deps .

FROM ${PYTHON}
COPY --from=build /opt/surgekit /opt/surgekit
ENV PATH=/opt/surgekit/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# By number, so that kubelet can tell it is not root (runAsNonRoot).
USER 65532:65532
ENTRYPOINT ["surgekit"]
