# variables_into(<folder>): variables.txt with the names of docs/env.yaml, a line each, by which a misspelt variable is
# told from one that somebody reads. In the stage and in the wheel.
function(variables_into folder)
  set(table "${PROJECT_SOURCE_DIR}/docs/env.yaml")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${table}")
  file(STRINGS "${table}" names REGEX "^- name: ")
  list(TRANSFORM names REPLACE "^- name: *" "")
  list(JOIN names "\n" names)
  file(CONFIGURE OUTPUT "${ANYCEND_STAGE_DIR}/${folder}/variables.txt" CONTENT "${names}\n" @ONLY)
  install(FILES "${ANYCEND_STAGE_DIR}/${folder}/variables.txt" DESTINATION "${folder}")
endfunction()
