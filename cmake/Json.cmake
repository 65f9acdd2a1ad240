# nlohmann's JSON header: the target json_headers.
include(PythonHeaders)
python_headers(json_headers nlohmann-json nlohmann/json.hpp)
