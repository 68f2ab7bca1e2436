(enum_declaration name: (identifier) @name) @definition.enum
(record_declaration name: (identifier) @name) @definition.class
(annotation_type_declaration name: (identifier) @name) @definition.interface
(annotation_type_element_declaration name: (identifier) @name) @definition.method
(constructor_declaration name: (identifier) @name) @definition.constructor
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.field
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.field
(enum_constant name: (identifier) @name) @definition.field
(superclass [
  (type_identifier) @name
  (generic_type (type_identifier) @name)
  (scoped_type_identifier (type_identifier) @name .)
]) @reference.inherits
(super_interfaces (type_list [(type_identifier) @name (generic_type (type_identifier) @name)])) @reference.inherits
(extends_interfaces (type_list [(type_identifier) @name (generic_type (type_identifier) @name)])) @reference.inherits
(type_identifier) @name @reference.type
(marker_annotation name: (identifier) @name) @reference.type
(annotation name: (identifier) @name) @reference.type
(method_reference . (identifier) @name) @reference.value
(field_access object: (identifier) @name) @reference.value
(method_invocation object: (identifier) @name) @reference.value
