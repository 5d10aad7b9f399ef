# schema/*.fbs -> generated/*_generated.h
find_program(FLATC flatc REQUIRED)
file(GLOB schemas CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/schema/*.fbs)
set(generated_dir ${CMAKE_BINARY_DIR}/generated)
foreach(schema ${schemas})
  get_filename_component(name ${schema} NAME_WE)
  set(header ${generated_dir}/${name}_generated.h)
  add_custom_command(OUTPUT ${header}
    COMMAND ${FLATC} --cpp --cpp-std c++17 --scoped-enums -o ${generated_dir} ${schema}
    DEPENDS ${schemas})
  list(APPEND headers ${header})
endforeach()
add_custom_target(penstock_schema_headers DEPENDS ${headers})
add_library(penstock_schema INTERFACE)
add_dependencies(penstock_schema penstock_schema_headers)
target_include_directories(penstock_schema SYSTEM INTERFACE ${generated_dir})
